package submission

import "strings"

// known are the programs whose code is known. nanoGPT's are all states of train.py and model.py in karpathy/nanoGPT
// from 5 February 2023 (fused AdamW, scaled_dot_product_attention, a vocabulary of 50,304) to 9 December 2024
// (dc81cb3), each the [fingerprint] of the file at that commit. A newer state of upstream is not refused as long as
// it is not listed here.
var known = &programs{
	nanoGPTTrain: setOf("1d1d8bc518b23a8d57c7 33a0e4254465d9189ff6 408fe7483efe9ee4562d 65ea02a31309c9290a0f " +
		"67826aa90a5f2705aee4 81da972ef795b6ba2624 94986ee30164098d0ef9 " +
		"a8bf5207313640dd0af4 a93bb1f4b9db2ca92d2e c2978cb3f1b97cb49c02 d7bef37892701adf7937 e32b98fcf8edab30ca7b " +
		"f4d0b0c907313bfa566b f66a3d69aef28f684619"),
	nanoGPTModel: setOf("01c86082ef1732f272a7 0a1d8863f6c4f6aefa99 12b158e004fcbd438a9a 217998920ebbc50bc9f6 " +
		"39fa6c5e3513896c1fb6 5fa71064231f4a175108 6aa4875fa4dd15b3b57e " +
		"87a27636caea8ca1c66d 95402c7ad58bd050f567 c09b779c51caeeadd5c7 d58410494fb517523048 e50ab10e6d488edf5acb"),
}

func setOf(words string) map[string]bool {
	m := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		m[word] = true
	}
	return m
}
