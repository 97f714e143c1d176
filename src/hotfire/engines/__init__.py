"""One protocol, many engines: what runs a model and what only looks like it.

`protocol` says what an engine does; `targets` opens one by its name, such as `numpy:probe`.
"""

from hotfire.engines.protocol import (
    Batch,
    Description,
    Engine,
    Rows,
    Span,
    Status,
)
from hotfire.engines.targets import open_engine

__all__ = ["Batch", "Description", "Engine", "Rows", "Span", "Status", "open_engine"]
