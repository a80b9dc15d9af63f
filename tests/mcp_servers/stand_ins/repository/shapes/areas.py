def square(side):
    return side * side


def triangle(base, height):
    return base * height
