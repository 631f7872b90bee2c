"""The candidate's Python on tensors without data: what it asks of the device, recorded as data and played back."""
