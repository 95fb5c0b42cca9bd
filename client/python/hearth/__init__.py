"""Python side of Hearth. Needs numpy and nothing else; never torch."""
