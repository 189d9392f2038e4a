"""Plug-ins: classes and modules of any package, found by entry point, and the texts that choose and set them."""
