"""The twelve tasks in other styles than the recordings: type hints, guard clauses, helpers, early returns,
raises.

Programs of our own, the first of each contract in the recordings' style. How many normal forms they have
says how far the rules reach beyond the data they were developed on.

    python -m benchmarks.styles
"""

from __future__ import annotations

from skyt.contracts.contract import load_contracts
from skyt.repair.rules import Facts, normal_form

STYLES: dict[str, list[str]] = {
    "fibonacci_recursive": [
        r"""
def fibonacci(n):
    if n <= 0:
        return 0
    elif n == 1:
        return 1
    else:
        return fibonacci(n - 1) + fibonacci(n - 2)
""",
        r"""
def fibonacci(n):
    if n <= 1:
        return n
    return fibonacci(n-1) + fibonacci(n-2)
""",
        r'''
def fibonacci(n):
    """
    Return the nth Fibonacci number using recursion.
    """
    # Handle invalid input
    if not isinstance(n, int):
        raise TypeError("n must be an integer")
    if n < 0:
        raise ValueError("n must be a non-negative integer")

    # Base cases
    if n == 0:
        return 0
    if n == 1:
        return 1

    # Recursive case
    return fibonacci(n - 1) + fibonacci(n - 2)
''',
        r"""
def fibonacci(n: int) -> int:
    if n < 0:
        raise ValueError(f"n must be non-negative, got {n}")
    if n in (0, 1):
        return n
    return fibonacci(n - 2) + fibonacci(n - 1)
""",
        r"""
def fibonacci(n):
    if n < 2:
        return n
    else:
        return fibonacci(n - 1) + fibonacci(n - 2)
""",
        r"""
def fibonacci(n):
    if n == 0 or n == 1:
        return n
    return fibonacci(n-1) + fibonacci(n-2)

# Example usage:
if __name__ == "__main__":
    for i in range(10):
        print(f"F({i}) = {fibonacci(i)}")
""",
        r"""
def fibonacci(n):
    return n if n <= 1 else fibonacci(n - 1) + fibonacci(n - 2)
""",
        r"""
def fibonacci(n):
    if n == 0:
        return 0
    elif n == 1:
        return 1
    return fibonacci(n - 1) + fibonacci(n - 2)

print(fibonacci(10))
""",
    ],
    "fibonacci_basic": [
        r"""
def fibonacci(n):
    if n <= 0:
        return 0
    elif n == 1:
        return 1
    a, b = 0, 1
    for _ in range(2, n + 1):
        a, b = b, a + b
    return b
""",
        r"""
def fibonacci(n):
    if n < 0:
        raise ValueError("n must be a non-negative integer")
    if n <= 1:
        return n
    prev, curr = 0, 1
    for _ in range(2, n + 1):
        prev, curr = curr, prev + curr
    return curr
""",
        r"""
def fibonacci(n):
    if n < 0:
        raise ValueError("n must be non-negative")
    if n == 0:
        return 0
    prev2 = 0
    prev1 = 1
    for i in range(2, n + 1):
        current = prev1 + prev2
        prev2 = prev1
        prev1 = current
    return prev1
""",
        r'''
def fibonacci(n: int) -> int:
    """Return nth."""
    if n <= 1:
        return n
    a = 0
    b = 1
    i = 2
    while i <= n:
        temp = a + b
        a = b
        b = temp
        i += 1
    return b
''',
        r"""
def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a
""",
        r"""
def fibonacci(n):
    if n == 0:
        return 0
    elif n == 1:
        return 1
    fib_prev, fib_curr = 0, 1
    for _ in range(n - 1):
        fib_prev, fib_curr = fib_curr, fib_prev + fib_curr
    return fib_curr
""",
    ],
    "factorial": [
        r"""
def factorial(n):
    if n < 0:
        raise ValueError("Input must be a non-negative integer.")
    result = 1
    for i in range(2, n + 1):
        result *= i
    return result
""",
        r"""
def factorial(n):
    if not isinstance(n, int) or n < 0:
        raise ValueError("bad")
    if n == 0 or n == 1:
        return 1
    result = 1
    for i in range(1, n + 1):
        result = result * i
    return result
""",
        r"""
def factorial(n: int) -> int:
    if n < 0:
        raise ValueError("Factorial is not defined for negative numbers")
    if n <= 1:
        return 1
    product = 1
    i = 2
    while i <= n:
        product *= i
        i += 1
    return product
""",
        r"""
def factorial(n):
    result = 1
    while n > 1:
        result *= n
        n -= 1
    return result
""",
        r"""
import math
def factorial(n):
    return math.prod(range(1, n+1))
""",
    ],
    "gcd": [
        r"""
def gcd(a, b):
    while b:
        a, b = b, a % b
    return a
""",
        r'''
def gcd(a, b):
    """Euclid"""
    while b != 0:
        temp = b
        b = a % b
        a = temp
    return a
''',
        r"""
def gcd(a: int, b: int) -> int:
    if a <= 0 or b <= 0:
        raise ValueError("Both numbers must be positive integers")
    while b > 0:
        remainder = a % b
        a = b
        b = remainder
    return a
""",
        r"""
def gcd(a, b):
    while b != 0:
        a, b = b, a % b
    return abs(a)
""",
        r"""
def gcd(a, b):
    a, b = abs(a), abs(b)
    while b:
        a, b = b, a % b
    return a
""",
        r"""
def gcd(a, b):
    if b == 0:
        return a
    return gcd(b, a % b)
""",
        r"""
def gcd(a, b):
    # Ensure a is greater than or equal to b
    if a < b:
        a, b = b, a
    while b:
        a, b = b, a % b
    return a
""",
        r"""
def gcd(x, y):
    while True:
        if y == 0:
            return x
        x, y = y, x % y
""",
    ],
    "is_prime": [
        r"""
def is_prime(n):
    if n <= 1:
        return False
    for i in range(2, int(n**0.5) + 1):
        if n % i == 0:
            return False
    return True
""",
        r"""
import math
def is_prime(n):
    if n < 2:
        return False
    for i in range(2, int(math.sqrt(n)) + 1):
        if n % i == 0:
            return False
    return True
""",
        r'''
def is_prime(n: int) -> bool:
    """Check."""
    if n < 2:
        return False
    i = 2
    while i * i <= n:
        if n % i == 0:
            return False
        i += 1
    return True
''',
        r"""
def is_prime(n):
    if n < 2:
        return False
    return all(n % i != 0 for i in range(2, int(n ** 0.5) + 1))
""",
        r"""
def is_prime(n):
    if n <= 1:
        return False
    if n <= 3:
        return True
    if n % 2 == 0 or n % 3 == 0:
        return False
    i = 5
    while i * i <= n:
        if n % i == 0 or n % (i + 2) == 0:
            return False
        i += 6
    return True
""",
        r"""
from math import isqrt
def is_prime(n):
    if n < 2: return False
    if n == 2: return True
    if n % 2 == 0: return False
    for i in range(3, isqrt(n) + 1, 2):
        if n % i == 0:
            return False
    return True
""",
        r"""
def is_prime(n):
    # Handle edge cases
    if n <= 1:
        return False
    if n == 2:
        return True
    if n % 2 == 0:
        return False
    # Check odd divisors up to square root of n
    i = 3
    while i * i <= n:
        if n % i == 0:
            return False
        i += 2
    return True
""",
        r"""
def is_prime(n):
    if n > 1:
        for i in range(2, int(n ** 0.5) + 1):
            if (n % i) == 0:
                return False
        else:
            return True
    else:
        return False
""",
        r"""
def is_prime(n):
    if not isinstance(n, int):
        raise TypeError("n must be an int")
    return n > 1 and not any(n % i == 0 for i in range(2, int(n**0.5) + 1))
""",
    ],
    "is_palindrome": [
        r"""
def is_palindrome(s):
    return s == s[::-1]
""",
        r"""
def is_palindrome(s):
    cleaned = ''.join(char.lower() for char in s if char.isalnum())
    return cleaned == cleaned[::-1]
""",
        r'''
def is_palindrome(s: str) -> bool:
    """..."""
    # Remove non-alphanumeric characters and convert to lowercase
    cleaned = ''.join(c.lower() for c in s if c.isalnum())

    # Compare with its reverse
    return cleaned == cleaned[::-1]
''',
        r"""
import re
def is_palindrome(s):
    s = re.sub(r'[^a-zA-Z0-9]', '', s).lower()
    return s == s[::-1]
""",
        r"""
def is_palindrome(s):
    normalized = ""
    for ch in s:
        if ch.isalnum():
            normalized += ch.lower()
    return normalized == normalized[::-1]
""",
        r"""
def is_palindrome(s):
    filtered_chars = [ch.lower() for ch in s if ch.isalnum()]
    filtered = ''.join(filtered_chars)
    return filtered[::-1] == filtered
""",
        r"""
def is_palindrome(s):
    left, right = 0, len(s) - 1
    while left < right:
        if s[left] != s[right]:
            return False
        left += 1
        right -= 1
    return True
""",
        r"""
def is_palindrome(s):
    if not isinstance(s, str):
        raise TypeError("Input must be a string")
    reversed_s = s[::-1]
    if s == reversed_s:
        return True
    else:
        return False
""",
        r"""
def is_palindrome(text):
    return text == "".join(reversed(text))
""",
        r"""
def is_palindrome(s):
    n = len(s)
    for i in range(n // 2):
        if s[i] != s[n - 1 - i]:
            return False
    return True
""",
        r"""
def is_palindrome(s):
    return all(s[i] == s[-1 - i] for i in range(len(s) // 2))
""",
        r"""
def is_palindrome(s):
    for i in range(len(s) // 2):
        if s[i] != s[len(s) - i - 1]:
            return False
    return True
""",
    ],
    "quick_sort": [
        r"""
def quick_sort(arr):
    if len(arr) <= 1:
        return arr
    pivot = arr[len(arr) // 2]
    left = [x for x in arr if x < pivot]
    middle = [x for x in arr if x == pivot]
    right = [x for x in arr if x > pivot]
    return quick_sort(left) + middle + quick_sort(right)
""",
        r'''
def quick_sort(arr):
    """Sort."""
    # Base case
    if len(arr) <= 1:
        return arr.copy()

    # Choose pivot
    pivot = arr[len(arr) // 2]

    # Partition
    less = []
    equal = []
    greater = []
    for x in arr:
        if x < pivot:
            less.append(x)
        elif x == pivot:
            equal.append(x)
        else:
            greater.append(x)
    return quick_sort(less) + equal + quick_sort(greater)
''',
        r"""
def quick_sort(lst):
    if len(lst) < 2:
        return lst
    mid = len(lst) // 2
    pivot = lst[mid]
    smaller = [num for num in lst if num < pivot]
    same = [num for num in lst if num == pivot]
    larger = [num for num in lst if num > pivot]
    return quick_sort(smaller) + same + quick_sort(larger)
""",
        r"""
def quick_sort(arr):
    if not arr:
        return []
    if len(arr) == 1:
        return arr[:]
    pivot = arr[len(arr) // 2]
    left = [x for x in arr if x < pivot]
    middle = [x for x in arr if x == pivot]
    right = [x for x in arr if x > pivot]
    return [*quick_sort(left), *middle, *quick_sort(right)]
""",
        r"""
def quick_sort(arr):
    if len(arr) <= 1:
        return arr
    else:
        pivot = arr[0]
        left = [x for x in arr[1:] if x < pivot]
        right = [x for x in arr[1:] if x >= pivot]
        return quick_sort(left) + [pivot] + quick_sort(right)
""",
        r"""
def quick_sort(arr):
    if len(arr) <= 1:
        return arr
    pivot = arr[0]
    less = [x for x in arr[1:] if x <= pivot]
    greater = [x for x in arr[1:] if x > pivot]
    return quick_sort(less) + [pivot] + quick_sort(greater)
""",
        r"""
from typing import List
def quick_sort(arr: List[int]) -> List[int]:
    if len(arr) <= 1:
        return list(arr)
    pivot = arr[len(arr) // 2]
    left = [x for x in arr if x < pivot]
    equal = [x for x in arr if x == pivot]
    right = [x for x in arr if pivot < x]
    sorted_left = quick_sort(left)
    sorted_right = quick_sort(right)
    return sorted_left + equal + sorted_right
""",
    ],
    "merge_sort": [
        r"""
def merge_sort(arr):
    if len(arr) <= 1:
        return arr
    mid = len(arr) // 2
    left_half = merge_sort(arr[:mid])
    right_half = merge_sort(arr[mid:])
    return merge(left_half, right_half)

def merge(left, right):
    sorted_arr = []
    left_index, right_index = 0, 0
    while left_index < len(left) and right_index < len(right):
        if left[left_index] < right[right_index]:
            sorted_arr.append(left[left_index])
            left_index += 1
        else:
            sorted_arr.append(right[right_index])
            right_index += 1
    sorted_arr.extend(left[left_index:])
    sorted_arr.extend(right[right_index:])
    return sorted_arr
""",
        r'''
def merge_sort(arr):
    """Sorts a list of integers"""
    # Base case
    if len(arr) <= 1:
        return arr[:]

    # Divide
    mid = len(arr) // 2
    left = merge_sort(arr[:mid])
    right = merge_sort(arr[mid:])

    # Merge
    return _merge(left, right)


def _merge(left: list, right: list) -> list:
    """Merge"""
    result = []
    i = j = 0

    while i < len(left) and j < len(right):
        if left[i] < right[j]:
            result.append(left[i])
            i += 1
        else:
            result.append(right[j])
            j += 1

    # Append remaining
    result += left[i:]
    result += right[j:]
    return result
''',
        r"""
def merge_sort(arr):
    if len(arr) <= 1:
        return arr
    mid = len(arr) // 2
    left = merge_sort(arr[:mid])
    right = merge_sort(arr[mid:])
    merged = []
    i, j = 0, 0
    while i < len(left) and j < len(right):
        if left[i] < right[j]:
            merged.append(left[i])
            i += 1
        else:
            merged.append(right[j])
            j += 1
    while i < len(left):
        merged.append(left[i])
        i += 1
    while j < len(right):
        merged.append(right[j])
        j += 1
    return merged
""",
        r"""
def merge_sort(arr):
    if len(arr) < 2:
        return arr.copy()
    middle = len(arr) // 2
    left_sorted = merge_sort(arr[:middle])
    right_sorted = merge_sort(arr[middle:])
    def merge(a, b):
        out = []
        i = 0
        j = 0
        while i < len(a) and j < len(b):
            if a[i] <= b[j]:
                out.append(a[i])
                i += 1
            else:
                out.append(b[j])
                j += 1
        return out + a[i:] + b[j:]
    return merge(left_sorted, right_sorted)
""",
        r"""
def merge_sort(arr):
    if len(arr) <= 1:
        return arr
    mid = len(arr) // 2
    return merge(merge_sort(arr[:mid]), merge_sort(arr[mid:]))

def merge(left, right):
    result = []
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i] >= right[j]:
            result.append(right[j])
            j += 1
        else:
            result.append(left[i])
            i += 1
    result.extend(left[i:])
    result.extend(right[j:])
    return result
""",
    ],
    "binary_search": [
        r"""
def binary_search(sorted_list, target):
    left, right = 0, len(sorted_list) - 1
    while left <= right:
        mid = left + (right - left) // 2
        if sorted_list[mid] == target:
            return mid
        elif sorted_list[mid] < target:
            left = mid + 1
        else:
            right = mid - 1
    return -1
""",
        r'''
def binary_search(arr: list[int], target: int) -> int:
    """..."""
    left = 0
    right = len(arr) - 1
    while left <= right:
        mid = (left + right) // 2
        mid_value = arr[mid]
        if mid_value == target:
            return mid
        if mid_value < target:
            left = mid + 1
        else:
            right = mid - 1
    return -1
''',
        r"""
def binary_search(arr, target):
    low, high = 0, len(arr) - 1
    while low <= high:
        mid = low + (high - low) // 2
        if arr[mid] > target:
            high = mid - 1
        elif arr[mid] < target:
            low = mid + 1
        else:
            return mid
    return -1
""",
        r"""
def binary_search(arr, target):
    if not arr:
        return -1
    left, right = 0, len(arr) - 1
    while left <= right:
        mid = (left + right) // 2
        if arr[mid] == target:
            return mid
        elif arr[mid] > target:
            right = mid - 1
        else:
            left = mid + 1
    return -1
""",
    ],
    "balanced_brackets": [
        r"""
def is_balanced(s):
    stack = []
    bracket_map = {')': '(', '}': '{', ']': '['}
    for char in s:
        if char in bracket_map.values():
            stack.append(char)
        elif char in bracket_map.keys():
            if not stack or stack.pop() != bracket_map[char]:
                return False
    return not stack
""",
        r'''
def is_balanced(s: str) -> bool:
    """Check"""
    stack = []
    pairs = {')': '(', ']': '[', '}': '{'}
    opening = set(pairs.values())
    for ch in s:
        if ch in opening:
            stack.append(ch)
        elif ch in pairs:
            if not stack or stack[-1] != pairs[ch]:
                return False
            stack.pop()
    return len(stack) == 0
''',
        r"""
def is_balanced(s):
    # Stack to keep track of opening brackets
    stack = []
    matching = {')': '(', '}': '{', ']': '['}
    for char in s:
        if char in '([{':
            stack.append(char)
        elif char in ')]}':
            if not stack:
                return False
            if stack.pop() != matching[char]:
                return False
    return len(stack) == 0
""",
        r"""
def is_balanced(s):
    stack = []
    brackets = {'(': ')', '[': ']', '{': '}'}
    for char in s:
        if char in brackets:
            stack.append(char)
        elif char in brackets.values():
            if not stack or brackets[stack.pop()] != char:
                return False
    return not stack
""",
        r"""
PAIRS = {')': '(', ']': '[', '}': '{'}
OPENERS = frozenset(PAIRS.values())
def is_balanced(s):
    stack = []
    for c in s:
        if c in OPENERS:
            stack.append(c)
            continue
        if c in PAIRS:
            if not stack:
                return False
            top = stack.pop()
            if top != PAIRS[c]:
                return False
    return not stack
""",
        r"""
def is_balanced(s):
    stack = []
    opening = "([{"
    closing = ")]}"
    matches = {')': '(', ']': '[', '}': '{'}
    for char in s:
        if char in opening:
            stack.append(char)
        elif char in closing:
            if len(stack) == 0 or stack[-1] != matches[char]:
                return False
            stack.pop()
    return stack == []
""",
    ],
    "slugify": [
        r"""
def slugify(text):
    import re
    text = text.lower()
    text = re.sub(r'[^a-z0-9\s-]', '', text)
    text = re.sub(r'[\s]+', '-', text)
    return text.strip('-')
""",
        r"""
import re

def slugify(text: str) -> str:
    # Convert to lowercase
    slug = text.lower()
    # Remove special characters except hyphens and spaces
    slug = re.sub(r'[^a-z0-9\s-]', '', slug)
    # Replace spaces
    slug = re.sub(r'\s+', '-', slug)
    # Strip leading/trailing hyphens
    slug = slug.strip('-')
    return slug
""",
        r"""
import re
def slugify(text):
    text = text.lower()
    text = re.sub(r'[^a-z0-9\- \s]', '', text)
    text = re.sub(r'\s+', '-', text)
    return text.strip('-')
""",
    ],
    "lru_cache": [
        r"""
class Node:
    def __init__(self, key, value):
        self.key = key
        self.value = value
        self.prev = None
        self.next = None

class LRUCache:
    def __init__(self, capacity: int):
        self.capacity = capacity
        self.cache = {}
        self.head = Node(0, 0)
        self.tail = Node(0, 0)
        self.head.next = self.tail
        self.tail.prev = self.head

    def _remove(self, node: Node):
        prev_node = node.prev
        next_node = node.next
        prev_node.next = next_node
        next_node.prev = prev_node

    def _add_to_head(self, node: Node):
        node.next = self.head.next
        node.prev = self.head
        self.head.next.prev = node
        self.head.next = node

    def get(self, key: int) -> int:
        if key in self.cache:
            node = self.cache[key]
            self._remove(node)
            self._add_to_head(node)
            return node.value
        return -1

    def put(self, key: int, value: int) -> None:
        if key in self.cache:
            self._remove(self.cache[key])
        node = Node(key, value)
        self.cache[key] = node
        self._add_to_head(node)
        if len(self.cache) > self.capacity:
            lru_node = self.tail.prev
            self._remove(lru_node)
            del self.cache[lru_node.key]
""",
        r'''
class Node:
    """Doubly linked list node."""
    def __init__(self, key=0, value=0):
        self.key = key
        self.value = value
        self.prev = None
        self.next = None

class LRUCache:
    def __init__(self, capacity: int):
        if capacity <= 0:
            raise ValueError("Capacity must be positive")
        self.capacity = capacity
        self.cache = {}  # key -> node
        # dummies
        self.head = Node()
        self.tail = Node()
        self.head.next = self.tail
        self.tail.prev = self.head

    def _remove(self, node):
        node.prev.next = node.next
        node.next.prev = node.prev

    def _add_to_front(self, node):
        node.prev = self.head
        node.next = self.head.next
        self.head.next.prev = node
        self.head.next = node

    def get(self, key):
        if key not in self.cache:
            return -1
        node = self.cache[key]
        self._remove(node)
        self._add_to_front(node)
        return node.value

    def put(self, key, value):
        if key in self.cache:
            self._remove(self.cache[key])
        node = Node(key, value)
        self.cache[key] = node
        self._add_to_front(node)
        if len(self.cache) > self.capacity:
            lru = self.tail.prev
            self._remove(lru)
            del self.cache[lru.key]
''',
        r"""
class LRUCache:
    class _Node:
        def __init__(self, key, value):
            self.key = key
            self.value = value
            self.prev = None
            self.next = None
    def __init__(self, capacity):
        self.capacity = capacity
        self.cache = {}
        self.head = self._Node(None, None)
        self.tail = self._Node(None, None)
        self.head.next = self.tail
        self.tail.prev = self.head
    def get(self, key):
        node = self.cache.get(key)
        if node is None:
            return -1
        self._move_to_front(node)
        return node.value
    def _move_to_front(self, node):
        self._remove(node)
        self._add_to_front(node)
    def _remove(self, node):
        node.prev.next = node.next
        node.next.prev = node.prev
    def _add_to_front(self, node):
        node.next = self.head.next
        node.prev = self.head
        self.head.next.prev = node
        self.head.next = node
    def put(self, key, value):
        if key in self.cache:
            self._remove(self.cache[key])
        node = self._Node(key, value)
        self._add_to_front(node)
        self.cache[key] = node
        if len(self.cache) > self.capacity:
            lru = self.tail.prev
            self._remove(lru)
            del self.cache[lru.key]
""",
        r"""
from collections import OrderedDict

class LRUCache:
    def __init__(self, capacity):
        self.capacity = capacity
        self.cache = OrderedDict()

    def get(self, key):
        if key not in self.cache:
            return -1
        self.cache.move_to_end(key)
        return self.cache[key]

    def put(self, key, value):
        if key in self.cache:
            self.cache.move_to_end(key)
        self.cache[key] = value
        if len(self.cache) > self.capacity:
            self.cache.popitem(last=False)
""",
        r"""
from collections import OrderedDict

class LRUCache:
    def __init__(self, capacity):
        self.capacity = capacity
        self.cache = OrderedDict()

    def get(self, key):
        if key in self.cache:
            # Move to end
            self.cache.move_to_end(key)
            return self.cache[key]
        else:
            return -1

    def put(self, key, value):
        if key in self.cache:
            # Update
            self.cache[key] = value
            self.cache.move_to_end(key)
        else:
            if len(self.cache) >= self.capacity:
                self.cache.popitem(last=False)
            self.cache[key] = value
""",
    ],
}


def main() -> None:
    contracts = load_contracts()
    print(f"{'contract':20} programs  normal forms  of the first one's form")
    total = forms = like = 0
    for name, programs in STYLES.items():
        found = [normal_form(code, Facts.from_contract(contracts[name])).text for code in programs]
        same = sum(text == found[0] for text in found)
        print(f"{name:20} {len(programs):8} {len(set(found)):13} {same:24}")
        total, forms, like = total + len(programs), forms + len(set(found)), like + same
    print(f"{'all':20} {total:8} {forms:13} {like:24}")


if __name__ == "__main__":
    main()
