"""Programs that look right and pass most listed cases, by contract: each is wrong on some in-domain input."""

WRONG = {
    "fibonacci_basic": {
        "closed form in floats": """
def fibonacci(n):
    phi = (1 + 5 ** 0.5) / 2
    return round(phi ** n / 5 ** 0.5)
""",
        "counts from one": """
def fibonacci(n):
    a, b = 1, 1
    for _ in range(n - 1):
        a, b = b, a + b
    return a
""",
        "recursive": "def fibonacci(n):\n    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)",
        "recursive through a helper": """
def fibonacci(n):
    def walk(k, a, b):
        return a if k == 0 else walk(k - 1, b, a + b)
    return walk(n, 0, 1)
""",
    },
    "fibonacci_recursive": {
        "a loop": """
def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a
""",
        "wrong base": "def fibonacci(n):\n    return 1 if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)",
        "shared memo that is wrong": """
def fibonacci(n, memo={0: 0, 1: 1, 12: 143}):
    if n not in memo:
        memo[n] = fibonacci(n - 1) + fibonacci(n - 2)
    return memo[n]
""",
    },
    "factorial": {
        "floats": """
def factorial(n):
    r = 1.0
    for i in range(2, n + 1):
        r *= i
    return int(r)
""",
        "stops early": """
def factorial(n):
    r = 1
    for i in range(2, min(n, 100) + 1):
        r *= i
    return r
""",
    },
    "gcd": {
        "stops at small numbers": """
def gcd(a, b):
    for d in range(min(a, b, 2000), 0, -1):
        if a % d == 0 and b % d == 0:
            return d
""",
        "true division": """
def gcd(a, b):
    while b:
        a, b = b, int(a - b * int(a / b))
    return a
""",
        "math": "import math\ndef gcd(a, b):\n    return math.gcd(a, b)",
    },
    "is_prime": {
        "misses squares": """
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5)))
""",
        "knows only small factors": """
def is_prime(n):
    return n > 1 and all(n % p or n == p for p in (2, 3, 5, 7, 11))
""",
        "takes one for a prime": "def is_prime(n):\n    return n > 0 and all(n % d for d in range(2, n))",
        "takes negatives by their size": """
def is_prime(n):
    n = abs(n)
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))
""",
        "Fermat's test": "def is_prime(n):\n    return n == 2 or n > 2 and pow(2, n - 1, n) == 1",
    },
    "is_palindrome": {
        "looks at the ends only": "def is_palindrome(s):\n    return s[:1] == s[-1:]",
        "changes its reading": """
def is_palindrome(s):
    t = s.lower() if ' ' in s else s
    return t == t[::-1]
""",
        "returns a list": "def is_palindrome(s):\n    return [c for c in s] == [c for c in s[::-1]] and [1]",
        "skips the middle": """
def is_palindrome(s):
    h = len(s) // 2
    return all(s[i] == s[-1 - i] for i in range(h - 1))
""",
    },
    "slugify": {
        "keeps underscores": """
import re
def slugify(text):
    return re.sub(r'\\s+', '-', re.sub(r'[^\\w\\s-]', '', text.lower())).strip('-')
""",
        "keeps letters of other scripts": """
def slugify(text):
    kept = ''.join(c for c in text.lower() if c.isalnum() or c in ' -')
    return '-'.join(kept.split()).strip('-')
""",
        "leaves hyphens at the ends": """
import re
def slugify(text):
    return re.sub(r'\\s+', '-', re.sub(r'[^a-z0-9\\s-]', '', text.lower()))
""",
    },
    "balanced_brackets": {
        "counts only": """
def is_balanced(s):
    return all(s.count(o) == s.count(c) for o, c in ('()', '[]', '{}'))
""",
        "other characters are brackets": """
def is_balanced(s):
    pairs = {')': '(', ']': '[', '}': '{'}
    stack = []
    for c in s:
        if c in pairs:
            if not stack or stack.pop() != pairs[c]:
                return False
        else:
            stack.append(c)
    return not stack
""",
        "gives up on deep nesting": """
def is_balanced(s):
    for _ in range(4):
        for pair in ('()', '[]', '{}'):
            s = ''.join(c for c in s if c in '()[]{}').replace(pair, '')
    return s == ''
""",
    },
    "binary_search": {
        "misses the last element": """
def binary_search(items, target):
    low, high = 0, len(items) - 1
    while low < high:
        mid = (low + high) // 2
        if items[mid] == target:
            return mid
        if items[mid] < target:
            low = mid + 1
        else:
            high = mid - 1
    return -1
""",
        "insertion point": """
import bisect
def binary_search(items, target):
    return bisect.bisect_left(items, target)
""",
        "list.index": """
def binary_search(items, target):
    return items.index(target) if target in items else -1
""",
    },
    "merge_sort": {
        "drops duplicates": """
def merge_sort(items):
    if len(items) <= 1:
        return items
    pivot = merge_sort(items[1:])
    out, x = [], items[0]
    for y in pivot:
        if x is not None and x < y:
            out.append(x)
            x = None
        if x != y:
            out.append(y)
    return out + ([x] if x is not None else [])
""",
        "sorts in place": """
def merge_sort(items):
    if len(items) > 1:
        mid = len(items) // 2
        left, right = items[:mid], items[mid:]
        merge_sort(left)
        merge_sort(right)
        for k in range(len(items)):
            source = left if left and (not right or left[0] <= right[0]) else right
            items[k] = source.pop(0)
    return items
""",
        "sorted": """
def merge_sort(items):
    return merge_sort(items[1:]) if len(items) < 0 else sorted(items)
""",
        "not recursive": """
def merge_sort(items):
    out = []
    for x in items:
        out.insert(sum(y <= x for y in out), x)
    return out
""",
    },
    "quick_sort": {
        "drops duplicates": """
def quick_sort(items):
    if not items:
        return []
    p = items[0]
    return quick_sort([x for x in items if x < p]) + [p] + quick_sort([x for x in items if x > p])
""",
        "returns a tuple": "def quick_sort(items):\n    return tuple(items) and items and None or ()",
    },
    "lru_cache": {
        "reading is not use": """
class LRUCache:
    def __init__(self, capacity):
        self.capacity, self.items = capacity, {}
    def get(self, key):
        return self.items.get(key, -1)
    def put(self, key, value):
        self.items.pop(key, None)
        self.items[key] = value
        if len(self.items) > self.capacity:
            del self.items[next(iter(self.items))]
""",
        "zero is nothing": """
class LRUCache:
    def __init__(self, capacity):
        self.capacity, self.items = capacity, {}
    def get(self, key):
        value = self.items.pop(key, None)
        if not value:
            return -1
        self.items[key] = value
        return value
    def put(self, key, value):
        self.items.pop(key, None)
        self.items[key] = value
        if len(self.items) > self.capacity:
            del self.items[next(iter(self.items))]
""",
        "shared between caches": """
class LRUCache:
    items = {}
    def __init__(self, capacity):
        self.capacity = capacity
    def get(self, key):
        if key not in self.items:
            return -1
        self.items[key] = self.items.pop(key)
        return self.items[key]
    def put(self, key, value):
        self.items.pop(key, None)
        self.items[key] = value
        if len(self.items) > self.capacity:
            del self.items[next(iter(self.items))]
""",
    },
    "is_even": {
        "odd": "def is_even(n):\n    return n % 2 == 1",
        "a number for a truth value": "def is_even(n):\n    return 1 - n % 2",
        "negative numbers are odd": "def is_even(n):\n    return n >= 0 and n % 2 == 0",
    },
    "reverse_string": {
        "as it is": "def reverse_string(s):\n    return s",
        "word by word": "def reverse_string(s):\n    return ' '.join(reversed(s.split(' ')))",
        "loses the ends' blanks": "def reverse_string(s):\n    return s.strip()[::-1]",
    },
    "sum_list": {
        "through floats": "def sum_list(numbers):\n    return int(sum(float(n) for n in numbers))",
        "forgets the first": "def sum_list(numbers):\n    return sum(numbers[1:])",
        "distinct numbers": "def sum_list(numbers):\n    return sum(set(numbers))",
        "empties its argument": """
def sum_list(numbers):
    total = 0
    while numbers:
        total += numbers.pop()
    return total
""",
    },
    "count_vowels": {
        "distinct vowels": "def count_vowels(s):\n    return len(set(s) & set('aeiou'))",
        "forgets u": "def count_vowels(s):\n    return sum(c in 'aeio' for c in s)",
    },
    "find_max": {
        "nothing below zero": """
def find_max(numbers):
    largest = 0
    for number in numbers:
        if number > largest:
            largest = number
    return largest
""",
        "the last": "def find_max(numbers):\n    return numbers[-1]",
        "sorts its argument": "def find_max(numbers):\n    numbers.sort()\n    return numbers[-1]",
    },
}  # fmt: skip
