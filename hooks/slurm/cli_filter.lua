--[[ vramplan as a cli_filter plugin (CliFilterPlugins=lua). It runs in the user's own sbatch, salloc or
srun, before anything is sent, so a slow check holds up nobody else.

The job is refused where vramplan answered, in good form, that it does not fit, the partition's mode is
"enforce" and the user gave no reason to run it anyway. Everything else ends in the job being submitted: no
program, no answer in time, a crash, nonsense, a setting that cannot be read, a fault in this file.

Settings: vramplan_hook.lua in the same directory. Lua 5.1 to 5.4, no modules. ]]

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "/etc/slurm/"

local function load_settings()
	local chunk = loadfile(here .. "vramplan_hook.lua")
	if not chunk then return nil end
	local ok, s = pcall(chunk)
	return ok and type(s) == "table" and s or nil
end

local function quoted(s) return "'" .. tostring(s):gsub("'", "'\\''") .. "'" end

-- text is an option's value if it is one that can be handed on.
local function text(v)
	if type(v) == "string" and v ~= "" and #v < 4096 and not v:find("[%z\n]") then return v end
	return nil
end

-- mode_of is the weakest mode among the partitions in which the job may start.
local rank = { off = 0, audit = 1, warn = 2, enforce = 3 }
local function mode_of(s, partition)
	local weakest
	for name in (text(partition) or text(s.default_partition) or ""):gmatch("[^,]+") do
		local mode = (s.partitions or {})[name] or s.mode or "audit"
		if not rank[mode] then mode = "audit" end
		if not weakest or rank[mode] < rank[weakest] then weakest = mode end
	end
	weakest = weakest or s.mode or "audit"
	return rank[weakest] and weakest or "audit"
end

-- run executes a command line and returns its output and exit code; nil where it had none in time. What
-- the command leaves running is in its process group, and ends with it.
local most_output = 16384
local function run(command, seconds)
	local p = io.popen("exec 2>&1; timeout -s KILL " .. seconds .. " " .. command .. "; printf '\\nvramplan-exit %s\\n' $?", "r")
	if not p then return nil end
	local out = p:read(most_output) or ""
	p:close()
	local body, code = out:match("^(.*)\nvramplan%-exit (%d+)\n$")
	return body, tonumber(code)
end

-- script_arguments says where vramplan finds the script; nil where there is none to be found.
local function script_arguments(options)
	local argv = options["argv"]
	local wrap = options["wrap"]
	if options["type"] == "sbatch" and type(wrap) == "string" and #wrap < 65536 and not wrap:find("%z") then
		return "--script=-", "printf '%s' " .. quoted("#!/bin/sh\n" .. wrap) .. " | "
	end
	if options["type"] == "sbatch" and type(argv) == "table" and text(argv[1]) then
		return "--script=" .. quoted(argv[1]), ""
	end
	return nil, ""
end

local function command_line(s, mode, options, component)
	local script, input = script_arguments(options)
	if not script then
		if not text(os.getenv("VRAMPLAN_JOB")) then return nil end
		script, input = "", ""
	end
	local words = { quoted(s.command or "/usr/local/bin/vramplan"), "check", script, "--hook=slurm", "--mode=" .. mode,
		-- Half of the time may go into the search for what to change; the answer has to be out before the end.
		string.format("--advice-timeout=%dms", math.floor((tonumber(s.timeout_seconds) or 1) * 500)),
		"--override-help=" .. quoted("sbatch --comment='vramplan:override=REASON' ...") }
	for _, name in ipairs({ "gres", "gpus", "gpus-per-node", "gpus-per-task", "nodes", "ntasks", "constraint", "comment", "chdir" }) do
		local value = text(options[name])
		if value then words[#words + 1] = "--" .. name .. "=" .. quoted(value) end
	end
	local partition = text(options["partition"]) or text(s.default_partition)
	if partition then words[#words + 1] = "--partition=" .. quoted(partition) end
	if component > 0 then words[#words + 1] = string.format("--het-group=%d", component) end
	for _, name in ipairs({ "site", "decisions", "server" }) do
		if text(s[name]) then words[#words + 1] = "--" .. name .. "=" .. quoted(s[name]) end
	end
	return table.concat(words, " "), input
end

-- note_failure records that nothing was decided, where vramplan could not do it.
local function note_failure(s, mode, reason)
	local line = string.format('{"time":"%s","hook":"slurm","mode":"%s","action":"allow","verdict":"none","reason":"%s"}',
		os.date("!%Y-%m-%dT%H:%M:%SZ"), mode, reason)
	if s.decisions == "syslog" then
		os.execute("timeout -s KILL 1 logger -t vramplan " .. quoted(line) .. " >/dev/null 2>&1")
	elseif text(s.decisions) then
		local f = io.open(s.decisions, "a")
		if f then
			f:write(line, "\n")
			f:close()
		end
	end
end

local function say(mode, line)
	if mode ~= "audit" then slurm.log_info("%s", line) end
end

local function say_all(mode, message)
	for line in message:gmatch("[^\n]+") do say(mode, line) end
end

-- trouble is the reason why an answer counts for nothing; nil for one that counts.
local function trouble(out, code)
	if not code then return "no answer that can be read" end
	if code == 137 or code == 124 then return "no answer in time" end
	if code == 127 or code == 126 then return "the program is not there" end
	if code == 0 or code == 4 then
		for _, verdict in ipairs({ "fits", "tight", "unlikely", "does not fit" }) do
			if ("\n" .. out):find("\n" .. verdict .. ": ", 1, true) then return nil end
		end
	elseif code == 1 and ("\n" .. out):find("\ndoes not fit: ", 1, true) then
		return nil
	elseif (code == 2 or code == 3) and out:find("^vramplan check: ") then
		return nil
	end
	return "exit code " .. code .. " without an answer"
end

local function recorded(s, options, verdict)
	if not s.record_verdict or options["type"] ~= "sbatch" then return end
	local comment = text(options["comment"])
	options["comment"] = "vramplan:verdict=" .. verdict .. (comment and ("; " .. comment) or "")
end

local function check(options, offset)
	local s = load_settings()
	if not s then return slurm.SUCCESS end
	if os.getenv("SLURM_JOB_ID") and options["type"] == "srun" then return slurm.SUCCESS end -- a step of a job
	local mode = mode_of(s, options["partition"])
	local user = os.getenv("USER") or os.getenv("LOGNAME") or ""
	if mode == "off" or (s.exempt_users or {})[user] then return slurm.SUCCESS end
	-- Of a heterogeneous job each component comes here by itself.
	local command, input = command_line(s, mode, options, type(offset) == "number" and offset or 0)
	if not command then
		recorded(s, options, "none")
		return slurm.SUCCESS
	end
	local out, code = run("sh -c " .. quoted(input .. command), tonumber(s.timeout_seconds) or 1)
	local reason = trouble(out, code)
	if reason then
		recorded(s, options, "none")
		note_failure(s, mode, reason)
		say(mode, "vramplan: the job was not checked (" .. reason .. ") and is submitted")
		return slurm.SUCCESS
	end
	if code == 1 then
		recorded(s, options, "does_not_fit")
		say_all(mode, out)
		if mode == "enforce" then return slurm.ERROR end
		say(mode, "vramplan: the job is submitted all the same")
		return slurm.SUCCESS
	end
	recorded(s, options, code == 0 and "ok" or "none")
	-- What begins so is advice (tight, overridden) or the reason for no answer; most jobs have neither.
	for line in out:gmatch("[^\n]+") do
		if line:find("^vramplan check: ") and not line:find("no job found", 1, true) then say(mode, line) end
	end
	return slurm.SUCCESS
end

function slurm_cli_setup_defaults(options, early) return slurm.SUCCESS end

function slurm_cli_pre_submit(options, offset)
	local ok, result = pcall(check, options, offset)
	if ok and result == slurm.ERROR then return slurm.ERROR end
	return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end

return slurm.SUCCESS
