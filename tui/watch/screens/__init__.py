"""The tab of watched runs."""
