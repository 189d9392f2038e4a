"""The cockpit: a terminal screen beside a run. It only reads snapshots, control sockets and run directories.

feed → news → Scene ┐
                    ├→ model (pure) → Grid, Plot, Line → widgets
keys → View ────────┘
"""
