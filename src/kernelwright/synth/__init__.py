"""Programs: a graph with a schedule of typed decisions, and the printers that turn programs into Triton code.

`library.program_of(graph)` gives the best known schedule, `library.schedules_of(graph)` all that are worth a search, and
`to_triton.print_triton(program)` code that defines `def kernel(...)`.
"""
