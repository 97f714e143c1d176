"""Tests of hotfire.abi."""
