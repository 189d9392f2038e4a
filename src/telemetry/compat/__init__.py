"""Interfaces of other systems. Code written for them runs here with only its import changed.

Each module translates the calls of one system to the client.
"""
