"""Live control: every hub that plays opens a socket, through which its user looks in and steers."""
