package model

// encoderSeeds are where FuzzFromHF starts with encoders.
var encoderSeeds = []string{
	`{"model_type":"deberta-v2","relative_attention":true,"pos_att_type":["c2p",1],"position_buckets":-2,"norm_rel_ebd":3}`,
	`{"model_type":"modernbert","global_attn_every_n_layers":0,"classifier_pooling":1,"reference_compile":"x"}`,
	`{"model_type":"roberta","pad_token_id":-1,"max_position_embeddings":1}`,
}
