package check

import (
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// The file is read as docker compose reads it, against its schema, and its two halves fit each other.
func TestCompose(t *testing.T) {
	read := func(environment types.Mapping) *types.Project {
		t.Helper()
		p, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
			WorkingDir: "../..", ConfigFiles: []types.ConfigFile{{Filename: "../../docker-compose.yml"}},
			Environment: environment,
		}, func(o *loader.Options) { o.SetProjectName("vramplan", true) })
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := read(types.Mapping{"POSTGRES_PASSWORD": "another"})
	service, database := p.Services["vramplan"], p.Services["database"]
	if len(p.Services) != 2 || service.Build == nil || database.Image == "" {
		t.Fatalf("services %v", p.ServiceNames())
	}
	value := func(s types.ServiceConfig, name string) string {
		if v := s.Environment[name]; v != nil {
			return *v
		}
		return ""
	}
	url := "postgres://" + value(database, "POSTGRES_USER") + "@database:5432/" + value(database, "POSTGRES_DB") +
		"?sslmode=disable"
	if got := value(service, "VRAMPLAN_DATABASE"); got != url {
		t.Errorf("the service asks %s, the database is %s", got, url)
	}
	for _, p := range []*types.Project{p, read(nil)} {
		if a, b := value(p.Services["vramplan"], "PGPASSWORD"), value(p.Services["database"], "POSTGRES_PASSWORD"); a == "" || a != b {
			t.Errorf("passwords %q and %q", a, b)
		}
	}
	if d := service.DependsOn["database"]; d.Condition != types.ServiceConditionHealthy || database.HealthCheck == nil {
		t.Errorf("the service waits for %+v", d)
	}
	if !service.ReadOnly || !slices.Equal(service.CapDrop, []string{"ALL"}) || service.Privileged {
		t.Error("the service has more rights than it needs")
	}
	for _, port := range service.Ports {
		if port.HostIP != "127.0.0.1" {
			t.Errorf("port %d is open to others, with a password that everybody knows", port.Target)
		}
	}
	if limit := value(service, "VRAMPLAN_MEMORY_LIMIT"); limit != "512MiB" || service.MemLimit != 512<<20 {
		t.Errorf("the service believes in %s and has %d", limit, service.MemLimit)
	}
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			if _, ok := p.Volumes[v.Source]; !ok || v.Type != types.VolumeTypeVolume {
				t.Errorf("%s: volume %+v", name, v)
			}
		}
		if s.StopGracePeriod == nil || !strings.HasPrefix(s.Restart, "unless") {
			t.Errorf("%s: stops after %v, restarts %q", name, s.StopGracePeriod, s.Restart)
		}
	}
}
