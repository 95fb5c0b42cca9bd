"""Converters that turn public data into folders that Hearth imports."""
