def count_vowels(s):
    count = 0
    for letter in s:
        if letter in "aeiou":
            count += 1
    return count
