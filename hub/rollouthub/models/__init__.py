"""Who generates: model names, credentials, the direct lane, mock models and their server."""
