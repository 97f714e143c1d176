"""GPU code objects and the devices that run them, one protocol for CUDA and HIP.

It imports `hotfire.errors` alone; cuda-bindings or hip-python are imported when a device is opened.
"""
