"""The cockpit: a terminal screen beside a run. It reads snapshots, control and run directories, nothing else.

feed → news → Scene ┐
                    ├→ model (pure) → Grid, Plot, Line → widgets
keys → View ────────┘
"""
