"""Tests of the property suites."""
