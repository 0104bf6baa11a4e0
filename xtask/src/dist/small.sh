#!/bin/sh
# Stands for the program where packing is tested: it says of itself what packages hold.
case $* in
    man) printf '.TH toolbus 1\n\\fBtoolbus\\-call(1)\\fR\nCalls a tool.\n' ;;
    'man call') printf '.TH toolbus-call 1\n' ;;
    'completions '*) printf 'complete %s\n' "$2" ;;
    *) echo 42 ;;
esac
