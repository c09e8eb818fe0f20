package main

import "testing"

func TestASizeIsANumberWithAUnit(t *testing.T) {
	for text, want := range map[string]size{
		"1": 1, "512": 512, "7B": 7, "64KiB": 64 << 10, "512MiB": 512 << 20, "1GiB": 1 << 30, "2TiB": 2 << 40,
		"": 0, "0": 0, "-1": 0, "1.5GiB": 0, "1GB": 0, "1 GiB": 0, "GiB": 0, "9999999TiB": 0, "1gib": 0,
	} {
		var got size
		if err := got.UnmarshalText([]byte(text)); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q is %d, %v", text, got, err)
		}
	}
}
