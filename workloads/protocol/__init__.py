"""The protocol between processes: records, JSON lines, requests, events, results."""
