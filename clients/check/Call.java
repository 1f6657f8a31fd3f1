import java.util.List;
import org.openapitools.client.ApiClient;
import org.openapitools.client.api.EstimatesApi;
import org.openapitools.client.model.*;

/** One call by the Java client of openapi-generator: prints the bytes and the verdict. */
public class Call {
  public static void main(String[] args) throws Exception {
    Training training = new Training().microBatch(8L).sequenceLength(1024L).precision(Precision.PRECISION_AMP_BF16)
        .optimizer(new Optimizer(OptimizerName.OPTIMIZER_NAME_ADAMW_TORCH_FUSED_UNDERSCORED));
    Job job = new Job().model(new Model(new ModelByPreset().preset("gpt2"))).training(training)
        .gpus(List.of(new GPURef("rtx-4090")));
    Result result = new EstimatesApi(new ApiClient().setBasePath(args[0])).estimate(job, null, null, null);
    System.out.println(result.getPeak().getDeviceBytes() + " " + result.getGpus().get(0).getVerdict());
    System.exit(0);
  }
}
