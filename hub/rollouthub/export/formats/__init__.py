"""Export formats, one file each: the columns of a data set, and the rows that a group makes."""
