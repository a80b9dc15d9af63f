"""`hub report`: what runs came to, in a file to share."""
