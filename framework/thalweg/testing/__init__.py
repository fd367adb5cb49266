"""The conformance suite that plugin authors run on their own code."""
