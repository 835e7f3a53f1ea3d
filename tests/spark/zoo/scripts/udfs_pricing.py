"""What udfs.py imports."""

TAX = {"CZ": 0.21, "DE": 0.19, "FR": 0.20, "JP": 0.10}


def gross(net: float, country: str) -> float:
    return round(net * (1 + TAX.get(country, 0.0)), 2)


def label(product: str, country: str) -> str:
    return f"{country}-{product}"
