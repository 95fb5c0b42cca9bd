"""Options of jobs and sweeps, as values in Python programs.

Names, defaults and bounds come from the descriptions in spec.proto
(proto/hearth/v1/options.proto), as for the command line: no option is known by name.
"""
