"""`hub view`: the runs of this machine in a browser, or as static pages."""
