package mapped_test

import (
	"testing"

	"rillkeep.dev/rillkeep/plane"
)

func TestAFoldKeepsAnErrorsMessageAndACancel(t *testing.T) {
	s, door := full.open(t)
	for id, status := range map[string]plane.Status{"failed": plane.StatusError, "cancelled": plane.StatusComplete} {
		door.exec("INSERT INTO {messages} ({id}, {seq}) VALUES ($1, 0)", id)
		row := appended(t, s, id, claim(t, s, id), "abc")
		door.exec("UPDATE {messages} SET {cancel} = {id} = 'cancelled' WHERE {id} = $1", id)
		seal := plane.Seal{ID: id, Token: row.Token, Status: status, From: 3, Seq: 3, Text: "abc"}
		seal.HasError, seal.Error = id == "failed", "no model"
		if _, err := s.Seal(t.Context(), seal); err != nil {
			t.Fatal(err)
		}
		now, _ := door.Row(id)
		if now.Body != "abc" || string(now.Status) != map[string]string{"failed": "error", "cancelled": "cancelled"}[id] || now.HasError != seal.HasError {
			t.Errorf("%s: the row is %+v", id, now)
		}
	}
}
