#!/bin/bash
{ id -un; pwd; echo "$GREETING"; echo "$BIRD"; } > report.txt
