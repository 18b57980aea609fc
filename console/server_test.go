package console

import "testing"

func TestNearestReportIsShown(t *testing.T) {
	t.Parallel()
	all := []report{
		{Product: "PostgreSQL", Version: "15.18"}, {Product: "PostgreSQL", Version: "18.6"},
		{Product: "SQLite", Version: "3.53"},
	}
	for version, want := range map[string]string{"15.2": "15.18", "18.6": "18.6", "18.4": "18.6", "16.1": "18.6"} {
		if got, found := nearest(all, "PostgreSQL", version); !found || got.Version != want {
			t.Errorf("PostgreSQL %s has the report of %q, want %q", version, got.Version, want)
		}
	}
	if got, found := nearest(all, "Oracle", "19"); found {
		t.Errorf("Oracle has the report %+v", got)
	}
}

// TestReportsOfAllEngines reads the generated file.
func TestReportsOfAllEngines(t *testing.T) {
	t.Parallel()
	for _, product := range []string{"PostgreSQL", "MySQL", "MariaDB", "SQLite"} {
		r, found := nearest(reports, product, "")
		if sum := r.Total(); !found || sum.Passed == 0 || r.Date == "" {
			t.Errorf("%s: %+v of %+v", product, sum, r)
		}
		for _, g := range r.of("cas").Groups {
			if g.Strategy != "cas" && g.Strategy != r.Groups[0].Strategy {
				t.Errorf("%s under cas has %+v", product, g)
			}
		}
	}
}
