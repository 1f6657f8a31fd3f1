// Package readers turns files of other tools into job documents: batch scripts, configurations, programs in Python,
// Kubernetes objects. [Read] takes what is handed over, and an [Answer] has the jobs, with the file and line of every
// field, what is asked, and what stands between a job and a judgement ([Job.Range], [Doubt]). [MakePatch] goes the way
// back.
//
// What a tool's words mean stands in a folder of its own below this one, a row each in the table of tools; what several
// tools share stands beside them. Arrows point down, and no shared package knows a tool:
//
//	readers      what is asked and answered; which commands, files and containers are read by which tool
//	finish       what is done with every job after its tool: words left over, what the user said, doubts
//	megatron …   a folder a tool
//	trl          ▶ huggingface ▶ shards, loops ▶ shards: what families of tools share
//	tool         a row of the table, and the job that a tool reads: its launch, its settings (In), its draft (Out)
//	models       names and files of models; programs: what a program loads and trains; defaults: by release
//	launch       commands of scripts: who starts how many processes of which program with which words
//	draft        a job document in the making: origins, questions, doubts, the least that it may be
//	argv         words of command lines; source: files; setting: values with their places
package readers
