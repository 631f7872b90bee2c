"""Programs: a graph with a schedule of typed decisions, and the printers that turn it into Triton.

`library.program_of(graph)` answers with the best schedule that is known, `library.schedules_of(graph)` with all that are
worth a search, `to_triton.print_triton(program)` with code that defines `def kernel(...)`.
"""
