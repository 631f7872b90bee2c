"""The judge behind HTTP, and for agents over MCP.

    app.py       the routes: verify, verdicts, tasks, health, metrics
    jobs.py      requests as jobs: bounded, idempotent by content, kept across a restart
    store.py     verdicts and unfinished requests in SQLite
    guard.py     tokens and the size of bodies, before anything is parsed
    tools.py     the MCP server

Candidate code is never loaded here, only in the pool's confined processes. The client is `verify/remote.py`.
"""
