"""The screens, one per file: their widgets, and the models that fill them."""
