def reverse_string(s):
    result = ""
    for character in s:
        result = character + result
    return result
