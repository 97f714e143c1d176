"""The little language that `nano` speaks: facts, questions, and the one right answer to each.

    kim has a red key. ann has a blue box. who has the red key?   kim.

A conversation is drawn from a seed: people get things, give them away, go to places, have codes of
digits; between facts that matter stand others that do not. Its world is kept beside the text, so
that the right answer to each question is known. Everything is lower case and short.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

NAMES = (
    "kim", "ann", "bob", "eva", "max", "tom", "lea", "jim", "sue", "ben", "ida", "leo", "mia",
    "noa", "pia", "ron", "zoë", "björn",
)  # fmt: skip
"""The last two are not ASCII: their letters are several tokens, none of them a character."""
COLOURS = (
    "red", "blue", "green", "white", "black", "pink", "grey", "brown", "golden", "yellow",
)  # fmt: skip
THINGS = (
    "key", "box", "hat", "cup", "book", "ball", "lamp", "coin", "ring", "map", "bag", "pen",
    "shoe", "bell", "drum", "kite", "rope", "sock", "coat", "fork", "knife", "spoon", "clock",
    "chair",
)  # fmt: skip
PLACES = (
    "kitchen", "garden", "cellar", "attic", "yard", "hall", "barn", "park", "shop", "school",
    "tower", "harbour",
)  # fmt: skip
NUMBERS = ("nothing", "one", "two", "three")
HELD_MAX = 3
"""Things that one person can have."""
DAYS = ("cold", "warm", "wet", "dry", "long", "quiet")
ANIMALS = ("cat", "dog", "horse", "bird", "fox", "mouse")
DEEDS = ("sleeps", "sings", "waits", "runs")
SIDES = ("by", "behind", "under", "near")
OBJECTS = ("tree", "wall", "door", "table", "river", "bridge")
WORDS = (*COLOURS, *THINGS, *PLACES, *ANIMALS, *OBJECTS)


@dataclass(frozen=True)
class Turn:
    """What is said, ending with a question, and the answer to it.

    Args:
        kind: the kind of question, one of `KINDS`.
        said: facts and a question.
        answer: the right answer, with its full stop.
    """

    kind: str
    said: str
    answer: str


def digits(rng: random.Random, length: int) -> str:
    """A number of so many digits, as text."""
    return "".join(rng.choice("0123456789") for _ in range(length))


@dataclass
class World:
    """What is true so far.

    Args:
        rng: decides everything.
        names: the people of this world.
    """

    rng: random.Random
    names: Sequence[str]
    held: dict[str, list[str]] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    codes: dict[str, str] = field(default_factory=dict)
    number: str = ""

    def known(self) -> list[str]:
        """People of whom something is known, in the order in which it was said."""
        return list(dict.fromkeys([*self.held, *self.places, *self.codes]))

    def fact(self) -> str:
        """Makes something happen, and says it."""
        makers: tuple[Callable[[], str], ...] = (
            self._has, self._gives, self._goes, self._code, self._remember, self._filler,
        )  # fmt: skip
        [make] = self.rng.choices(makers, weights=(32, 16, 18, 9, 3, 22))
        return make() or self._filler()

    def _has(self) -> str:
        name = self.rng.choice(self.names)
        item = f"{self.rng.choice(COLOURS)} {self.rng.choice(THINGS)}"
        words = {word for held in self.held.values() for each in held for word in each.split()}
        if words & set(item.split()) or len(self.held.get(name, ())) >= HELD_MAX:
            return ""
        self.held.setdefault(name, []).append(item)
        return f"{name} has a {item}."

    def _gives(self) -> str:
        givers = [name for name, held in self.held.items() if held]
        if not givers:
            return ""
        giver, taker = self.rng.choice(givers), self.rng.choice(self.names)
        if giver == taker or len(self.held.get(taker, ())) >= HELD_MAX:
            return ""
        item = self.rng.choice(self.held[giver])
        self.held[giver].remove(item)
        self.held.setdefault(taker, []).append(item)
        return f"{giver} gives the {item} to {taker}."

    def _goes(self) -> str:
        name, place = self.rng.choice(self.names), self.rng.choice(PLACES)
        verb = "goes to" if name in self.places else "is in"
        self.places[name] = place
        return f"{name} {verb} the {place}."

    def _code(self) -> str:
        name = self.rng.choice(self.names)
        if name in self.codes:
            return ""
        self.codes[name] = digits(self.rng, self.rng.randint(4, 8))
        return f"the code of {name} is {self.codes[name]}."

    def _remember(self) -> str:
        if self.number:
            return ""
        self.number = digits(self.rng, self.rng.randint(4, 8))
        return f"remember {self.number}."

    def _filler(self) -> str:
        pick = self.rng.choice
        if self.rng.random() < 0.3:
            return f"it is a {pick(DAYS)} day."
        return f"the {pick(ANIMALS)} {pick(DEEDS)} {pick(SIDES)} the {pick(OBJECTS)}."

    def question(self, kind: str) -> Turn | None:
        """A question of a kind, or None if nothing is known that it could ask for."""
        found = KINDS[kind](self)
        return Turn(kind, *found) if found else None

    def holding(self, name: str) -> str:
        """What somebody has, in the order in which it came."""
        items = [f"a {item}" for item in self.held.get(name, ())]
        return " and ".join(items) if items else NUMBERS[0]

    def about(self, name: str) -> str:
        """All that is known of somebody."""
        parts = []
        if name in self.places:
            parts.append(f"{name} is in the {self.places[name]}.")
        if name in self.held:
            parts.append(f"{name} has {self.holding(name)}.")
        if name in self.codes:
            parts.append(f"the code of {name} is {self.codes[name]}.")
        return " ".join(parts)


Asked = tuple[str, str] | None


def _who(world: World) -> Asked:
    pairs = [(item, name) for name, held in world.held.items() for item in held]
    if not pairs:
        return None
    item, name = world.rng.choice(pairs)
    return f"who has the {item}?", f"{name}."


def _what(world: World) -> Asked:
    if not world.held:
        return None
    name = world.rng.choice(list(world.held))
    return f"what does {name} have?", f"{world.holding(name)}."


def _how_many(world: World) -> Asked:
    if not world.held:
        return None
    name = world.rng.choice(list(world.held))
    return f"how many things does {name} have?", f"{NUMBERS[len(world.held[name])]}."


def _where(world: World) -> Asked:
    if not world.places:
        return None
    name = world.rng.choice(list(world.places))
    return f"where is {name}?", f"in the {world.places[name]}."


def _code(world: World) -> Asked:
    if not world.codes:
        return None
    name = world.rng.choice(list(world.codes))
    return f"what is the code of {name}?", f"{world.codes[name]}."


def _number(world: World) -> Asked:
    return ("say the number.", f"{world.number}.") if world.number else None


def _about(world: World) -> Asked:
    known = world.known()
    if not known:
        return None
    name = world.rng.choice(known)
    return f"tell me about {name}.", world.about(name)


def _all(world: World) -> Asked:
    known = world.known()
    if not 1 <= len(known) <= 5:
        return None
    return "tell me all.", " ".join(map(world.about, known))


def _again(world: World) -> Asked:
    words = " ".join(world.rng.choices(WORDS, k=world.rng.randint(3, 12)))
    return f"say again: {words}.", f"{words}."


def _count(world: World) -> Asked:
    first = world.rng.randint(1, 40)
    last = first + world.rng.randint(1, 12)
    counted = " ".join(str(number) for number in range(first, last + 1))
    return f"count from {first} to {last}.", f"{counted}."


def _plus(world: World) -> Asked:
    one, other = world.rng.randint(0, 9), world.rng.randint(0, 9)
    return f"what is {one} plus {other}?", f"{one + other}."


KINDS: dict[str, Callable[[World], Asked]] = {
    "who": _who, "what": _what, "how many": _how_many, "where": _where, "code": _code,
    "number": _number, "about": _about, "all": _all, "again": _again, "count": _count,
    "plus": _plus,
}  # fmt: skip
_WEIGHTS = (24, 12, 8, 14, 12, 6, 10, 3, 5, 3, 3)
"""How often each kind is asked."""


def world(seed: str, n_names: int = 0) -> World:
    """An empty world of some people, 2 to 8 if not said."""
    rng = random.Random(seed)  # noqa: S311 - a seed must give the same text everywhere
    return World(rng, rng.sample(NAMES, n_names or rng.randint(2, 8)))


def turn(world: World, n_facts: int, kind: str = "") -> Turn:
    """Some facts and a question, of any kind if none is given."""
    facts = [world.fact() for _ in range(n_facts)]
    asked = None
    while asked is None:
        [drawn] = world.rng.choices(tuple(KINDS), weights=_WEIGHTS)
        asked = world.question(kind or drawn)
        if asked is None and kind:
            facts.append(world.fact())
    return Turn(asked.kind, " ".join([*facts, asked.said]), asked.answer)


def turns(seed: str) -> Iterator[Turn]:
    """A conversation without end: often a long report first, then questions and news."""
    now = world(seed)
    n_facts = int(2 ** now.rng.uniform(0, 6))
    while True:
        yield turn(now, n_facts)
        n_facts = now.rng.choice((0, 0, 0, 1, 1, 2, 3, 5, 8))


def canary(seed: str, number: str, n_facts: int = 20) -> Turn:
    """Facts, a number of 4 to 8 digits to remember among them, and the question for it."""
    now = world(seed)
    now.number = number
    facts = [now.fact() for _ in range(n_facts)]
    facts.insert(now.rng.randint(0, n_facts), f"remember {number}.")
    asked = now.question("number")
    assert asked is not None
    return Turn("number", " ".join([*facts, asked.said]), asked.answer)


def four_prompts(*, long: bool = False) -> list[Turn]:
    """One report, four questions, four different answers; `long` is one of some 300 tokens."""
    if not long:
        facts = "kim has a red key. ann has a blue box. bob has a green hat. eva has a white cup."
        asked = {"red key": "kim", "blue box": "ann", "green hat": "bob", "white cup": "eva"}
        return [
            Turn("who", f"{facts} who has the {item}?", f"{name}.") for item, name in asked.items()
        ]
    now = world("four prompts/1", n_names=6)
    facts = " ".join(now.fact() for _ in range(45))
    found = []
    for kind in ("who", "where", "code", "what"):
        asked_now = now.question(kind)
        assert asked_now is not None
        found.append(Turn(kind, f"{facts} {asked_now.said}", asked_now.answer))
    return found
