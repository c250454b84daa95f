"""Passes of TIR that stand in no pipeline of ours: for those who run them one by one."""
