def quick_sort(items):
    if len(items) < 2:
        return items
    pivot = items[len(items) // 2]
    below = [x for x in items if x < pivot]
    equal = [x for x in items if x == pivot]
    above = [x for x in items if x > pivot]
    return quick_sort(below) + equal + quick_sort(above)
