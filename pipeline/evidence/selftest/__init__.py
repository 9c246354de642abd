"""Delays of known length: does the instrument find them, and nothing else?"""
