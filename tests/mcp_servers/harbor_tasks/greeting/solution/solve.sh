#!/bin/bash
# The canary of the solution: 577215664901532860
echo 'Hello, world!' > /app/hello.txt
