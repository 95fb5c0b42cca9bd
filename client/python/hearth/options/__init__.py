"""What spec.proto says of the options of jobs, as values that Python programs give.

As the command line does, it takes names, defaults and bounds from the descriptions
(proto/hearth/v1/options.proto) and knows no option by name.
"""
