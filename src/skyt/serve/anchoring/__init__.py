"""One anchored request: find its contract, judge outputs, repair them towards the canon, record, answer."""
