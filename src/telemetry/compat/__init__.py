"""The faces of other systems, for programs that were written against them."""
