-- Settings of the vramplan hooks. The file lies beside slurm.conf and the two plugins; what is
-- left out has the value shown. A file that cannot be read turns the hooks off.
return {
	-- The program, and how long it may take before the job is submitted without an answer.
	command = "/usr/local/bin/vramplan",
	timeout_seconds = 1,

	-- off, audit (record, say nothing), warn (say it), enforce (refuse what does not fit),
	-- for each partition and for those that are not listed.
	mode = "audit",
	partitions = {
		-- gpu = "warn",
		-- ["gpu-small"] = "enforce",
	},
	-- The partition of jobs that name none.
	default_partition = nil,

	-- Users whose jobs are not looked at.
	exempt_users = { root = true },

	-- Which cards are behind the names of partitions, GRES types and features: a JSON file,
	-- see docs/hooks.md.
	site = nil,

	-- Where decisions are recorded: "syslog", or a file that every user may append to.
	decisions = "syslog",

	-- A service to ask first. It has a tenth of a second, and the program answers by itself
	-- where the service does not.
	server = nil,

	-- Write the verdict into the job's comment, where job_submit.lua finds it and sacct keeps it.
	record_verdict = false,
	-- Partitions on which job_submit.lua wants such a verdict, or a reason to do without.
	require_verdict = {
		-- ["gpu-small"] = true,
	},
}
