"""What travels between processes: records, JSON lines, requests, events, results."""
