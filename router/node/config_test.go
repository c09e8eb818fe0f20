package node_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/store/postgres/mapped"
)

// Each is opened at an address that is taken, beside a database that is not there:
// an answer that says neither came before both were asked.
func TestASettingThatCannotBeRightIsRefusedBeforeAnythingIsAsked(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	keys := newKeys(t).Keys
	const nobody = "postgres://u:" + password + "@127.0.0.1:1/x"
	policy := func(set func(*plane.Policy)) plane.Policy {
		p := plane.DefaultPolicy()
		set(&p)
		return p
	}
	for name, tt := range map[string]struct {
		cfg  node.Config
		want string
	}{
		"no port":                    {node.Config{Listen: "127.0.0.1"}, "Listen"},
		"no such port":               {node.Config{Listen: "127.0.0.1:70000"}, "Listen"},
		"no port, with keys":         {node.Config{Listen: "0.0.0.0", Keys: keys}, "Listen"},
		"all the world without keys": {node.Config{Listen: "0.0.0.0:0"}, "Listen"},
		"another database":           {node.Config{Database: "mysql://u:" + password + "@h/x"}, "Database"},
		"another direct database":    {node.Config{DirectDatabase: "mysql://u:" + password + "@h/x"}, "DirectDatabase"},
		"a machine without a name":   {node.Config{Cluster: &node.Cluster{Secrets: []string{clusterSecret}, FlyReplay: true}}, "FLY_MACHINE_ID"},
		"a name of no machine":       {node.Config{Name: "n1;app=x", Cluster: &node.Cluster{Secrets: []string{clusterSecret}, FlyReplay: true}}, "FLY_MACHINE_ID"},
		"a slash in the name":        {node.Config{Name: "a/b"}, "Name"},
		"a line in the name":         {node.Config{Name: "a\nb"}, "Name"},
		"bytes for a name":           {node.Config{Name: "\xff"}, "Name"},
		"a negative retention":       {node.Config{Retention: -1}, "Retention"},
		"a negative lease":           {node.Config{LeaseTTL: -1}, "LeaseTTL"},
		"a negative grace":           {node.Config{Grace: -1}, "Grace"},
		"a negative linger":          {node.Config{Linger: -1}, "Linger"},
		"negative connections":       {node.Config{MaxConnections: -1}, "MaxConnections"},
		"text below nothing":         {node.Config{MaxText: -1}, "MaxText"},
		"text for no stream":         {node.Config{MaxText: node.MinMaxText - 1}, "MaxText is 65535 bytes, and must be at least 64 KiB"},
		"a table of three parts":     {node.Config{Tables: mapped.Tables{Message: "a.b.c", Chunks: "c"}}, `"a.b.c"`},
		"a column with a quote":      {node.Config{Tables: mapped.Tables{Message: "m", Chunks: "c", Host: `h"`}}, "host"},
		"half a policy":              {node.Config{Policy: plane.Policy{Units: 1}}, "Interval"},
		"no units":                   {node.Config{Policy: policy(func(p *plane.Policy) { p.Units = 0 })}, "Units"},
		"a negative patience":        {node.Config{Policy: policy(func(p *plane.Policy) { p.SealPatience = -1 })}, "SealPatience"},
		"a check every hour":         {node.Config{Keys: keys, Limits: router.Limits{Recheck: time.Hour}}, "Recheck"},
		"a check every millisecond":  {node.Config{Keys: keys, Limits: router.Limits{Recheck: time.Millisecond}}, "Recheck"},
		"a negative check":           {node.Config{Limits: router.Limits{Recheck: -1}}, "Recheck"},
		"bytes of an append":         {node.Config{Limits: router.Limits{AppendBytes: -1}}, "AppendBytes"},
		"time of a header":           {node.Config{Limits: router.Limits{HeaderTime: -1}}, "HeaderTime"},
		"time of a body":             {node.Config{Limits: router.Limits{BodyTime: -1}}, "BodyTime"},
		"time of an answer":          {node.Config{Limits: router.Limits{AnswerTime: -1}}, "AnswerTime"},
		"time of the store":          {node.Config{Limits: router.Limits{StoreTime: -1}}, "StoreTime"},
		"bytes of a line":            {node.Config{Limits: router.Limits{PumpLineBytes: -1}}, "PumpLineBytes"},
		"readers":                    {node.Config{Limits: router.Limits{Readers: -1}}, "Readers"},
		"snapshots":                  {node.Config{Limits: router.Limits{Snapshots: -1}}, "Snapshots"},
		"pings":                      {node.Config{Limits: router.Limits{Ping: -1}}, "Ping"},
		"a stall":                    {node.Config{Limits: router.Limits{Stall: -1}}, "Stall"},
		"durable looks":              {node.Config{Limits: router.Limits{DurablePoll: -1}}, "DurablePoll"},
		"looks beside the feed":      {node.Config{Limits: router.Limits{FeedPoll: -1}}, "FeedPoll"},
		"a cluster without a secret": {node.Config{Cluster: &node.Cluster{}}, "Secrets"},
		"a short secret":             {node.Config{Cluster: &node.Cluster{Secrets: []string{clusterSecret, "short"}}}, "16 bytes"},
		"two ways to join":           {node.Config{Cluster: &node.Cluster{Secrets: []string{clusterSecret}, Join: []string{"a"}, JoinDNS: "b"}}, "JoinDNS"},
		"a space in a member's name": {node.Config{Name: "a b", Cluster: &node.Cluster{Secrets: []string{clusterSecret}}}, "Name"},
		"a cluster of hostless rows": {node.Config{Tables: mapped.Tables{Message: "m", Chunks: "c"}, Cluster: &node.Cluster{Secrets: []string{clusterSecret}}}, "host"},
		"a page":                     {node.Config{Limits: router.Limits{PageUnits: -1}}, "PageUnits"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.cfg.Listen == "" {
				tt.cfg.Listen = taken.Addr().String()
			}
			if tt.cfg.Database == "" {
				tt.cfg.Database = nobody
			}
			wantRefused(t, tt.cfg, tt.want)
		})
	}
}

// wantRefused fails the test unless a node does not open with cfg, for a reason that
// says want.
func wantRefused(t *testing.T, cfg node.Config, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n, err := node.Open(ctx, cfg)
	if err == nil {
		_ = n.Close()
	}
	if !errors.Is(err, plane.ErrConfig) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), password) {
		t.Errorf("got %v, want a refusal that says %q", err, want)
	}
}

func TestASettingWithoutEffectIsRefused(t *testing.T) {
	t.Parallel()
	const url = "postgres://127.0.0.1:1/x"
	for name, tt := range map[string]struct {
		cfg  node.Config
		want string
	}{
		"a way past no pooler":     {node.Config{DirectDatabase: url}, "DirectDatabase"},
		"a folder by a database":   {node.Config{Data: t.TempDir(), Database: url}, "Data"},
		"an audience without keys": {node.Config{Audience: "app"}, "Audience"},
		"columns without tables":   {node.Config{Tables: mapped.Tables{Body: "content"}, Database: url}, "no table is named"},
		"chunks without messages":  {node.Config{Tables: mapped.Tables{Chunks: "chunk"}, Database: url}, "no table is named for messages"},
		"tables of no database":    {node.Config{Tables: bare}, "Tables"},
		"a name in no column":      {node.Config{Tables: bare, Database: url, Name: "n1"}, "Name"},
		"a lease in no column":     {node.Config{Tables: bare, Database: url, LeaseTTL: time.Second}, "LeaseTTL"},
		"a grace of no lease":      {node.Config{Tables: bare, Database: url, Grace: time.Second}, "Grace"},
		"retention of messages":    {node.Config{Tables: full, Database: url, Retention: time.Hour}, "Retention"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.cfg.Listen = "127.0.0.1:0"
			wantRefused(t, tt.cfg, tt.want)
		})
	}
}
