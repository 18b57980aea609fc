package mysql

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
)

func TestInspect(t *testing.T) {
	t.Parallel()
	all := []dialect.Strategy{dialect.SkipLocked, dialect.Advisory, dialect.CAS}
	cas := []dialect.Strategy{dialect.CAS}
	type vars = map[string]string
	// groupOf is the answer of a member of Group Replication.
	groupOf := func(single, consistency string) vars {
		return vars{
			"group_replication_group_name":          "aaaa",
			"group_replication_single_primary_mode": single,
			"group_replication_consistency":         consistency,
		}
	}
	for _, c := range []struct {
		version    string
		more       vars
		product    string
		strategies []dialect.Strategy
		refused    string // a part of the error
	}{
		{"8.0.36", nil, "MySQL", all, ""},
		{"8.4.2", nil, "MySQL", all, ""},
		{"9.7.4-2", nil, "MySQL", all, ""},
		{"8.0.35-27 Percona", nil, "MySQL", all, ""},
		{"5.7.44-log", nil, "", nil, "too old (5.7.44-log)"},
		{"5.6.51", nil, "", nil, "too old"},
		{"10.6.18-MariaDB", nil, "MariaDB", all, ""},
		{"10.11.6-MariaDB-0+deb12u1", nil, "MariaDB", all, ""},
		{"11.8.6-MariaDB-0+deb13u1 from Debian", nil, "MariaDB", all, ""},
		{"5.5.5-10.11.6-MariaDB", nil, "MariaDB", all, ""},
		{"10.5.25-MariaDB", nil, "", nil, "too old"},
		{"5.5.5-10.3.39-MariaDB", nil, "", nil, "too old"},
		{"8.0.11-TiDB-v8.5.1", nil, "TiDB", cas, ""},
		{"5.7.25-TiDB-v6.5.0", nil, "TiDB", cas, ""},
		{"", nil, "", nil, "too old"},
		{"trunk", nil, "", nil, "too old"},

		{"10.11.6-MariaDB", vars{"wsrep_on": "ON", "wsrep_sync_wait": "1"}, "MariaDB", cas, ""},
		{"10.11.6-MariaDB", vars{"wsrep_on": "ON", "wsrep_sync_wait": "7"}, "MariaDB", cas, ""},
		{"10.11.6-MariaDB", vars{"wsrep_on": "ON", "wsrep_sync_wait": "0"}, "", nil, "add wsrep_sync_wait=1"},
		{"10.11.6-MariaDB", vars{"wsrep_on": "ON", "wsrep_sync_wait": "6"}, "", nil, "add wsrep_sync_wait=7"},
		{"10.11.6-MariaDB", vars{"wsrep_on": "OFF"}, "MariaDB", all, ""},
		{"8.0.36", vars{"wsrep_on": "ON", "wsrep_sync_wait": "1"}, "MySQL", cas, ""}, // Percona XtraDB Cluster
		{"8.4.2", vars{"group_replication_group_name": "", "group_replication_single_primary_mode": "OFF"},
			"MySQL", all, ""},
		{"8.4.2", vars{"group_replication_group_name": "aaaa", "group_replication_single_primary_mode": "ON"},
			"MySQL", all, ""},
		{"8.4.2", groupOf("ON", "EVENTUAL"), "", nil, "add group_replication_consistency='BEFORE_ON_PRIMARY_FAILOVER'"},
		{"8.4.2", groupOf("OFF", "BEFORE"), "MySQL", cas, ""},
		{"8.4.2", groupOf("OFF", "AFTER"), "MySQL", cas, ""},
		{"8.4.2", groupOf("OFF", "BEFORE_ON_PRIMARY_FAILOVER"), "", nil, "add group_replication_consistency='BEFORE'"},

		{"8.4.2", vars{"read_only": "ON"}, "", nil, "read-only"},
		{"10.11.6-MariaDB", vars{"read_only": "1"}, "", nil, "read-only"},
		{"8.4.2", vars{"log_bin": "ON", "binlog_format": "STATEMENT"}, "", nil, "set it to ROW"},
		{"8.4.2", vars{"log_bin": "ON", "binlog_format": "ROW"}, "MySQL", all, ""},
		{"11.8.6-MariaDB", vars{"log_bin": "ON", "binlog_format": "MIXED"}, "MariaDB", all, ""},
		{"11.8.6-MariaDB", vars{"log_bin": "OFF", "binlog_format": "STATEMENT"}, "MariaDB", all, ""},
		{"8.4.2", vars{"max_allowed_packet": "1048576"}, "", nil, "max_allowed_packet is 1048576 bytes"},
		{"8.4.2", vars{"max_allowed_packet": ""}, "", nil, "max_allowed_packet"},

		{"8.4.2", vars{"autocommit": "OFF"}, "", nil, "add autocommit=ON"},
		{"8.4.2", vars{"sql_mode": ""}, "", nil, "add sql_mode="},
		{"8.4.2", vars{"sql_mode": "ANSI,ONLY_FULL_GROUP_BY"}, "", nil, "add sql_mode="},
		{"8.4.2", vars{"sql_mode": "ANSI_QUOTES,STRICT_TRANS_TABLES"}, "MySQL", all, ""},
		{"8.4.2", vars{"character_set_client": "latin1"}, "", nil, "use collation=utf8mb4_bin"},
		{"10.11.6-MariaDB", vars{"tx_read_only": "ON"}, "", nil, "add tx_read_only=OFF"},
		{"8.4.2", vars{"transaction_read_only": "ON"}, "", nil, "add transaction_read_only=OFF"},
		{"8.4.2", vars{"completion_type": "CHAIN", "sql_safe_updates": "ON"}, "", nil,
			"add completion_type=NO_CHAIN&sql_safe_updates=OFF"},
	} {
		settings := vars{"version": c.version, "max_allowed_packet": "16777216", "read_only": "OFF",
			"autocommit": "ON", "sql_mode": "STRICT_ALL_TABLES", "character_set_client": "utf8mb4"}
		maps.Copy(settings, c.more)
		s, err := inspect(settings)
		if c.refused != "" {
			if !errors.Is(err, dialect.ErrServer) || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s %v: got %v, want %q", c.version, c.more, err, c.refused)
			}
			continue
		}
		if err != nil || s.Product != c.product || s.Version != c.version ||
			!slices.Equal(s.Strategies, c.strategies) || !s.ExplicitTx || s.Precision == 0 {
			t.Errorf("%s %v: got %+v, %v, want %s with %v", c.version, c.more, s, err, c.product, c.strategies)
		}
	}
}

// Versions older than those of the published reports are accepted, but reported as untested.
func TestInspectReportsUntestedVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"8.0.36": true, "8.4.2": true, "9.7.4-2": false, "10.0.1": false, "8.0.11-TiDB-v8.5.1": true,
		"10.6.18-MariaDB": true, "10.11.6-MariaDB-0+deb12u1": false, "5.5.5-11.8.6-MariaDB": false,
	} {
		s, err := inspect(map[string]string{
			"version": version, "max_allowed_packet": "16777216",
			"sql_mode": "STRICT_TRANS_TABLES", "character_set_client": "utf8mb4",
		})
		if err != nil || s.Untested != want {
			t.Errorf("%s: untested is %v, %v, want %v", version, s.Untested, err, want)
		}
	}
}

// A full batch fits into a packet, however much of it must be escaped.
func TestInspectMaxPayload(t *testing.T) {
	t.Parallel()
	for packet, want := range map[string]int{
		"8388608": 1 << 20, "16777216": 5 << 20, "67108864": 29 << 20, "1073741824": 100 << 20,
	} {
		s, err := inspect(map[string]string{
			"version": "8.4.2", "max_allowed_packet": packet,
			"sql_mode": "STRICT_TRANS_TABLES", "character_set_client": "utf8mb4",
		})
		if err != nil || s.MaxPayload != want {
			t.Errorf("%s: got %d, %v, want %d", packet, s.MaxPayload, err, want)
		}
	}
}
