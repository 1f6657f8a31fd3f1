package diagnose

import (
	"regexp"
	"strings"
)

// Summary is torch.cuda.memory_summary().
type Summary struct {
	Device *int `json:"device,omitempty"`
	// AllocatedBytes and ReservedBytes are those of the moment at which it was printed, the peaks beside them.
	AllocatedBytes     *int64 `json:"allocated_bytes,omitempty"`
	AllocatedPeakBytes *int64 `json:"allocated_peak_bytes,omitempty"`
	ReservedBytes      *int64 `json:"reserved_bytes,omitempty"`
	ReservedPeakBytes  *int64 `json:"reserved_peak_bytes,omitempty"`
	ActivePeakBytes    *int64 `json:"active_peak_bytes,omitempty"`
	OOMs               *int   `json:"ooms,omitempty"`
	Retries            *int   `json:"retries,omitempty"`
}

var (
	summaryHead   = regexp.MustCompile(`PyTorch CUDA memory summary, device ID (\d+)`)
	summaryCounts = regexp.MustCompile(`CUDA OOMs:\s*(\d+)\s*\|\s*cudaMalloc retries:\s*(\d+)`)
	summaryRow    = regexp.MustCompile(`\|\s*(Allocated memory|Active memory|GPU reserved memory)\s*\|\s*([0-9.]+)\s*([KMGT]?i?B)\s*\|\s*([0-9.]+)\s*([KMGT]?i?B)`)
	// statsRow is a key of torch.cuda.memory_stats(), as Python prints a dictionary, in bytes.
	statsRow = regexp.MustCompile(`['"]?(allocated_bytes|reserved_bytes|active_bytes)\.all\.(current|peak)['"]?\s*[:,]\s*(\d+)`)
)

// summaries finds the tables in a text, and the dictionary of which they are made.
func summaries(all []line) []Summary {
	var list []Summary
	var now *Summary
	begin := func() {
		list = append(list, Summary{})
		now = &list[len(list)-1]
	}
	for _, l := range all {
		if m := summaryHead.FindStringSubmatch(l.text); m != nil {
			if len(list) == maxSummaries {
				break
			}
			begin()
			device := atoi(m[1])
			now.Device = &device
		}
		if m := statsRow.FindAllStringSubmatch(l.text, 16); m != nil {
			if now == nil {
				begin()
			}
			for _, row := range m {
				if s, ok := parseSize(row[3], "B"); ok {
					now.set(row[1], row[2] == "peak", s.bytes)
				}
			}
		}
		if now == nil {
			continue
		}
		if m := summaryCounts.FindStringSubmatch(l.text); m != nil {
			ooms, retries := atoi(m[1]), atoi(m[2])
			now.OOMs, now.Retries = &ooms, &retries
		}
		if m := summaryRow.FindStringSubmatch(l.text); m != nil {
			current, ok1 := parseSize(m[2], m[3])
			peak, ok2 := parseSize(m[4], m[5])
			name := map[string]string{"Allocated memory": "allocated_bytes", "Active memory": "active_bytes",
				"GPU reserved memory": "reserved_bytes"}[m[1]]
			if ok1 {
				now.set(name, false, current.bytes)
			}
			if ok2 {
				now.set(name, true, peak.bytes)
			}
		}
	}
	return list
}

func (s *Summary) set(name string, peak bool, bytes int64) {
	switch {
	case name == "allocated_bytes" && peak:
		s.AllocatedPeakBytes = &bytes
	case name == "allocated_bytes":
		s.AllocatedBytes = &bytes
	case name == "reserved_bytes" && peak:
		s.ReservedPeakBytes = &bytes
	case name == "reserved_bytes":
		s.ReservedBytes = &bytes
	case name == "active_bytes" && peak:
		s.ActivePeakBytes = &bytes
	}
}

// Card is one card in what nvidia-smi printed.
type Card struct {
	Index      *int   `json:"index,omitempty"`
	Name       string `json:"name,omitempty"`
	TotalBytes *int64 `json:"total_bytes,omitempty"`
	UsedBytes  *int64 `json:"used_bytes,omitempty"`
	FreeBytes  *int64 `json:"free_bytes,omitempty"`
	// DriverBytes is what is neither used nor free: the driver keeps it.
	DriverBytes *int64    `json:"driver_bytes,omitempty"`
	Processes   []Process `json:"processes,omitempty"`
}

var (
	smiUsage   = regexp.MustCompile(`(\d+)MiB\s*/\s*(\d+)MiB`)
	smiName    = regexp.MustCompile(`^\|\s*(\d+)\s+((?:NVIDIA |Tesla |GeForce |Quadro |TITAN |A\d|H\d|RTX )[^|]*?)\s+(?:On|Off|WDDM|TCC|N/A|Persistence)?\s*\|`)
	smiProcess = regexp.MustCompile(`^\|\s*(\d+)\s+(?:\S+\s+\S+\s+)?(\d+)\s+(?:C|G|C\+G|M\+C)\s+(.*?)\s+(\d+)MiB\s*\|`)
	smiHeader  = regexp.MustCompile(`(?i)memory\.(?:total|used|free)`)
	// appsHeader is that of --query-compute-apps: one line a process.
	appsHeader = regexp.MustCompile(`(?i)used_(?:gpu_)?memory`)
)

// cards finds what nvidia-smi printed: its table, or CSV with or without units.
func cards(all []line) []Card {
	var list []Card
	var columns []string
	for i, l := range all {
		if len(list) == maxCards {
			break
		}
		fields := strings.Split(l.text, ",")
		switch {
		case len(fields) > 1 && (smiHeader.MatchString(l.text) || appsHeader.MatchString(l.text)) &&
			!strings.Contains(l.text, "nvidia-smi"):
			columns = columns[:0]
			for _, f := range fields {
				columns = append(columns, strings.ToLower(strings.TrimSpace(f)))
			}
			continue
		case len(columns) > 0 && len(fields) == len(columns):
			if p, ok := csvProcess(columns, fields); ok {
				if len(list) == 0 || list[len(list)-1].TotalBytes != nil || list[len(list)-1].Index != nil {
					list = append(list, Card{})
				}
				if of := &list[len(list)-1]; len(of.Processes) < maxProcesses {
					of.Processes = append(of.Processes, p)
				}
				continue
			}
			if c, ok := csvCard(columns, fields); ok {
				list = append(list, c)
				continue
			}
		}
		columns = nil
		if m := smiUsage.FindStringSubmatch(l.text); m != nil {
			used, _ := parseSize(m[1], "MiB")
			total, ok := parseSize(m[2], "MiB")
			if !ok || total.bytes == 0 {
				continue
			}
			c := Card{UsedBytes: &used.bytes, TotalBytes: &total.bytes}
			if i > 0 {
				if name := smiName.FindStringSubmatch(all[i-1].text); name != nil {
					index := atoi(name[1])
					c.Index, c.Name = &index, strings.TrimSpace(name[2])
				}
			}
			list = append(list, c)
			continue
		}
		if m := smiProcess.FindStringSubmatch(l.text); m != nil {
			s, ok := parseSize(m[4], "MiB")
			for c := range list {
				if ok && list[c].Index != nil && *list[c].Index == atoi(m[1]) && len(list[c].Processes) < maxProcesses {
					list[c].Processes = append(list[c].Processes, Process{PID: atoi(m[2]), Bytes: s.bytes})
				}
			}
		}
	}
	return list
}

// csvProcess is a line of --query-compute-apps.
func csvProcess(columns, fields []string) (Process, bool) {
	var p Process
	held := false
	for i, name := range columns {
		value := strings.TrimSpace(fields[i])
		switch {
		case name == "pid":
			p.PID = atoi(value)
		case appsHeader.MatchString(name):
			number, unit, _ := strings.Cut(value, " ")
			if unit == "" {
				unit = "MiB"
			}
			s, ok := parseSize(number, unit)
			p.Bytes, held = s.bytes, ok
		}
	}
	return p, held && p.PID > 0
}

func csvCard(columns, fields []string) (Card, bool) {
	var c Card
	for i, name := range columns {
		value := strings.TrimSpace(fields[i])
		number, unit, _ := strings.Cut(value, " ")
		if unit == "" {
			unit = "MiB"
		}
		s, ok := parseSize(number, unit)
		switch {
		case name == "index" && ok:
			index := atoi(number)
			c.Index = &index
		case name == "name" || name == "gpu_name":
			c.Name = value
		case strings.HasPrefix(name, "memory.total") && ok:
			c.TotalBytes = &s.bytes
		case strings.HasPrefix(name, "memory.used") && ok:
			c.UsedBytes = &s.bytes
		case strings.HasPrefix(name, "memory.free") && ok:
			c.FreeBytes = &s.bytes
		}
	}
	if c.TotalBytes != nil && c.UsedBytes != nil && c.FreeBytes != nil {
		kept := *c.TotalBytes - *c.UsedBytes - *c.FreeBytes
		c.DriverBytes = &kept
	}
	return c, c.TotalBytes != nil || c.UsedBytes != nil || c.FreeBytes != nil
}
